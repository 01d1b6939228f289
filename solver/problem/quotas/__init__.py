"""What quotas say of a batch: limits that may bind, guarantees and shares where pods contend, what one pod counts."""
