"""Where models run. torch is imported here, and only when a model is used."""

from palate.engine._encoder import Encoder, load_encoder
from palate.engine._vectors import Vectors
from palate.engine._weights import cache_folder, weights_folder

__all__ = ["Encoder", "Vectors", "cache_folder", "load_encoder", "weights_folder"]
