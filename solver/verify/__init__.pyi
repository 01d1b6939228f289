from .checker import check as check
from .snapshot_index import VerifierCache as VerifierCache
from .violations import Rule as Rule
