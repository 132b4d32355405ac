"""Folders in a bucket: each has a working copy on this machine while a command uses it.

Object stores cannot append, lock or rename, and runs do all of these. So a folder is fetched, changed here, and
uploaded whole file by whole file.
"""

from palate.storage._address import address_of, is_plain, is_url, url_in_path, url_of, with_addresses
from palate.storage._copy import kept_copies, private_folder, remove_abandoned, remove_drafts_here
from palate.storage._session import (
    fetch_into,
    fetched,
    folder_to_change,
    folder_to_read,
    folder_to_use,
    folder_to_write_in,
    held_copies,
    hold,
    is_empty,
    push_all,
    storing,
)
from palate.storage._store import Remote, StorageError, Store, urls_of

__all__ = [
    "Remote",
    "StorageError",
    "Store",
    "address_of",
    "fetch_into",
    "fetched",
    "folder_to_change",
    "folder_to_read",
    "folder_to_use",
    "folder_to_write_in",
    "held_copies",
    "hold",
    "is_empty",
    "is_plain",
    "is_url",
    "kept_copies",
    "private_folder",
    "push_all",
    "remove_abandoned",
    "remove_drafts_here",
    "storing",
    "url_in_path",
    "url_of",
    "urls_of",
    "with_addresses",
]
