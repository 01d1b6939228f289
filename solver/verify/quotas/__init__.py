"""The checks of DeviceQuotas: limits of every plan, and what reclaim may evict."""
