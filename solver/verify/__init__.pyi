from .before_write import recheck as recheck
from .checker import check as check
from .node_fit import obstacles as obstacles
from .pools import Pools as Pools
from .snapshot_index import VerifierCache as VerifierCache
from .usage import Holders as Holders
from .usage import clashes as clashes
from .violations import Rule as Rule
