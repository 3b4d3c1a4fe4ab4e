"""A pretended GPU: tensors stay in the CPU's memory, but say that they are on the GPU, and must not mix with others.

Values are real, so that searches, which look at them, run to their end; torch's fake tensors have none.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda", 0)
CPU = torch.device("cpu")
_SET_DATA: Any = vars(torch._C.TensorBase)["data"].__set__
_IS_CUDA: Any = vars(torch._C.TensorBase)["is_cuda"].__get__
_ACROSS = {Tensor.copy_, _SET_DATA, torch._has_compatible_shallow_copy_type}  # may mix
_CPU_INDICES = {Tensor.__getitem__, Tensor.__setitem__}  # a GPU's tensor takes indices on the CPU


class MixedDevices(RuntimeError):
    """An operation on tensors of two devices, which a real GPU would refuse, too."""


class PretendedGpu(TorchFunctionMode):
    """Within it, `torch.device("cuda")` works without a GPU, and an operation on tensors of two devices fails."""

    def __init__(self) -> None:
        super().__init__()
        self._on_gpu: dict[int, StorageWeakRef] = {}  # a weak reference keeps the key from being used again

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return self._device_of(args[0])
        if func == _IS_CUDA:
            return self._device_of(args[0]) == GPU
        if func == Tensor.numpy and self._device_of(args[0]) == GPU:
            raise TypeError("numpy() of a tensor on a GPU")
        if func == Tensor.to:
            return self._moved(*args, **kwargs)
        if func == Tensor.cpu:
            return self._moved(args[0], CPU)
        if func in _ACROSS:
            return (
                func(*args, **kwargs)
                if func != Tensor.__deepcopy__
                else self._put(func(*args), self._device_of(args[0]))
            )
        device = kwargs.pop("device", None)
        if device is None:
            device = self._common_device(func, _tensors((args, kwargs)))
        return self._put(func(*args, **kwargs), torch.device(device))

    def _device_of(self, tensor: Tensor) -> torch.device:
        return GPU if tensor.untyped_storage()._cdata in self._on_gpu else CPU

    def _common_device(self, func: Callable[..., Any], tensors: list[Tensor]) -> torch.device:
        """Return where the operation computes. Raises MixedDevices; a number on the CPU goes with any device."""
        if func in _CPU_INDICES and self._device_of(tensors[0]) == GPU:
            return GPU
        devices = {self._device_of(tensor) for tensor in tensors if tensor.dim()} or set(map(self._device_of, tensors))
        if len(devices) > 1:
            places = ", ".join(f"{tuple(tensor.shape)} on {self._device_of(tensor).type}" for tensor in tensors)
            raise MixedDevices(f"{func}: {places}")
        return devices.pop() if devices else CPU

    def _moved(self, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """What tensor.to(...) does."""
        if args and isinstance(args[0], Tensor):
            device, dtype = self._device_of(args[0]), args[0].dtype
        else:
            device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        before = self._device_of(tensor)
        after = device or before
        result = tensor if dtype is None else tensor.to(dtype)
        return self._put(tensor.clone() if result is tensor and after.type != before.type else result, after)

    def _put(self, result: Any, device: torch.device) -> Any:
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if device.type == "cuda":
                self._on_gpu.setdefault(storage._cdata, StorageWeakRef(storage))
            else:
                self._on_gpu.pop(storage._cdata, None)
        return result


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for one in value for tensor in _tensors(one)]
