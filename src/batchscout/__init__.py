"""batchscout: the batch size and learning rate that reach the target score soonest on this hardware."""

__version__ = "0.1.0"
