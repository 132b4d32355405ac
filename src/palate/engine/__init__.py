"""Where models run: this process, or a server. torch is imported here, and only when a model is used."""

from palate.engine._answers import AnswerCache, CachedLanguageModel
from palate.engine._doctor import Finding, examine
from palate.engine._encoder import Encoder, load_encoder
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
from palate.engine._local import LocalClassifier, LocalModel
from palate.engine._open import open_language_model, yes
from palate.engine._vectors import Vectors
from palate.engine._weights import cache_folder, weights_folder

__all__ = [
    "AnswerCache",
    "CachedLanguageModel",
    "ChooseRequest",
    "Chosen",
    "Conversation",
    "Encoder",
    "Failure",
    "Finding",
    "LanguageModel",
    "Likelihood",
    "LikelihoodRequest",
    "LocalClassifier",
    "LocalModel",
    "Sampling",
    "Turn",
    "Vectors",
    "WriteRequest",
    "Written",
    "cache_folder",
    "examine",
    "load_encoder",
    "open_language_model",
    "weights_folder",
    "yes",
]
