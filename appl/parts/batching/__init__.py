"""Batches at providers: the calls of a run go out together by levels, and cost half."""
