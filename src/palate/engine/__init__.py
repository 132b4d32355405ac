"""Where models run: this process, or a server. torch is imported here, and only when a model is used."""

from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._costs import money
from palate.engine._doctor import Diagnosis, examine
from palate.engine._encoder import SentenceEncoder, TextEncoder, load_encoder, token_counter
from palate.engine._given_tokens import RemoteClassifier
from palate.engine._language import (
    ChooseRequest,
    Chosen,
    Conversation,
    Failure,
    LanguageModel,
    Likelihood,
    LikelihoodRequest,
    Sampling,
    Turn,
    WriteRequest,
    Written,
)
from palate.engine._live import LiveModel, same_random_state
from palate.engine._local import LocalClassifier, LocalModel
from palate.engine._meter import (
    CHARACTERS,
    COUNTS,
    Meter,
    NotSentError,
    Spent,
    at_work,
    metering,
    portion,
    rehearsing,
    steps,
    summed,
    telling,
)
from palate.engine._open import in_process, keep_language_models, load_tokenizer, open_by_spec, open_language_model, yes
from palate.engine._torch import in_halves, out_of_memory, require, steady_attention
from palate.engine._traits import TRAITS
from palate.engine._vectors import Vectors, forget_vectors, text_hash, texts_with_vectors, vectors_folder
from palate.engine._weights import convert_gguf, folder_fingerprint, weights_folder
from palate.records import cache_folder

__all__ = [
    "CHARACTERS",
    "COUNTS",
    "TRAITS",
    "AnswerCache",
    "CachedLanguageModel",
    "ChooseRequest",
    "Chosen",
    "Conversation",
    "Diagnosis",
    "Failure",
    "LanguageModel",
    "Likelihood",
    "LikelihoodRequest",
    "LiveModel",
    "LocalClassifier",
    "LocalModel",
    "Meter",
    "NotSentError",
    "RemoteClassifier",
    "Sampling",
    "SentenceEncoder",
    "Spent",
    "TextEncoder",
    "Turn",
    "Vectors",
    "WriteRequest",
    "Written",
    "at_work",
    "cache_folder",
    "convert_gguf",
    "examine",
    "folder_fingerprint",
    "forget_vectors",
    "in_halves",
    "in_process",
    "keep_language_models",
    "load_encoder",
    "load_tokenizer",
    "metering",
    "money",
    "open_by_spec",
    "open_language_model",
    "out_of_memory",
    "portion",
    "rehearsing",
    "require",
    "same_random_state",
    "steady_attention",
    "steps",
    "summed",
    "telling",
    "text_hash",
    "texts_with_vectors",
    "token_counter",
    "vectors_folder",
    "weights_folder",
    "yes",
]
