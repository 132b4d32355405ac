"""A reward server for other trainers: requests that arrive together are rated together."""

from palate.serve._batcher import Batcher
from palate.serve._profiles import Profiles, trainer_ask
from palate.serve._server import ServeSettings, guarded_server, serve

__all__ = ["Batcher", "Profiles", "ServeSettings", "guarded_server", "serve", "trainer_ask"]
