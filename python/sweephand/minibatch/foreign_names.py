"""Attributes and arguments of other libraries' batches, and their counterparts here."""

from __future__ import annotations

from sweephand.base.advice import advice_by_name

ON_MINIBATCH = advice_by_name("""
numpy shape dtype asarray values_list
    each stream has arrays of its own, minibatch[{0!r}].asarray() or .values
cuda cpu pin_memory device tensors
    it is minibatch.torch(device), a dict of tensors
batch_size size num_examples
    it is minibatch.num_samples or minibatch.num_sequences
attention_mask mask lengths offsets data labels
    each stream has its own, minibatch[{0!r}].mask, .lengths, .offsets or .labels()
""")
ON_DATA = advice_by_name("""
numpy array tolist
    it is .values, or .asarray() with padding
dtype ndim size reshape
    it is that of .values or .asarray()
tensor to cuda cpu device
    it is .torch(device)
long int float half bfloat16 astype type
    it is .torch(dtype='int64'), or StreamDef(dtype=...) for all minibatches
attention_mask padding_mask
    it is .mask: 2 where a sequence begins, 1 where it goes on, 0 in gaps
""")
OF_TORCH = advice_by_name("""
dtype
    a stream is converted by minibatch['x'].torch(dtype=...), or in all minibatches by
    StreamDef(dtype=...)
pin_memory
    a CUDA device gets the data through pinned memory by itself
copy
    leave it out: tensors share the memory of the arrays, which are yours
""")
