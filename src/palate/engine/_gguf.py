"""From a GGUF file to a folder that transformers loads in half a second."""

from __future__ import annotations

from pathlib import Path

from palate.engine._optional import require


def convert_gguf(file: Path, folder: Path) -> None:
    """Write the model and its tokenizer in float32, with end and padding tokens that are not the same.

    GGUF files of chat models often name the end token as padding. A classifier would then read its score
    at the wrong place and a sampler would not know an end from a gap, so another special token is taken.
    """
    require("gguf", "local")
    torch = require("torch", "local")
    transformers = require("transformers", "local")
    logging = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        file.parent,
        gguf_file=file.name,
        quantization_config=transformers.GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    if tokenizer.pad_token_id in (None, tokenizer.eos_token_id):
        spare = tokenizer.unk_token
        if spare is None or spare == tokenizer.eos_token:
            tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
            model.resize_token_embeddings(len(tokenizer))
        else:
            tokenizer.pad_token = spare
    for settings in (model.config, model.generation_config):
        settings.pad_token_id = tokenizer.pad_token_id
        settings.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
