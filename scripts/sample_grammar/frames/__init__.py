"""Sentence frames: each draws one English-French pair; its docstring shows one."""
