"""List and watch of one kind: `list_watch` says what to ask and what answers mean, `reflector` asks."""
