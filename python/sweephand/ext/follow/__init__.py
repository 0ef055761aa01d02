"""What follows a run: ledgers, receipts, spikes, the batch size."""
