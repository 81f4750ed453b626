"""Device and stream scopes of a generated program, kept on a list that belongs to one call."""

from __future__ import annotations

from typing import Any

import torch


class DeviceScopes:
    """The scopes that are open in one call: the device, its streams, and the stream now current."""

    def __init__(self, device: torch.device, num_streams: int) -> None:
        self.device = torch.get_device_module(device).device(device)
        self.module = torch.get_device_module(device)
        self.streams = [
            self.module.current_stream(device),
            *(self.module.Stream(device) for _ in range(num_streams - 1)),
        ]
        self.open: list[Any] = []


def enter_device(device: torch.device, num_streams: int) -> DeviceScopes:
    """Makes ``device`` current."""
    scopes = DeviceScopes(device, num_streams)
    scopes.device.__enter__()
    return scopes


def exit_device(scopes: DeviceScopes) -> None:
    """Makes the device before current again."""
    scopes.device.__exit__(None, None, None)


def enter_stream(scopes: DeviceScopes, stream: int) -> None:
    """Makes one of the device's streams current."""
    scope = scopes.module.stream(scopes.streams[stream])
    scope.__enter__()
    scopes.open.append(scope)


def exit_stream(scopes: DeviceScopes) -> None:
    """Makes the stream before current again."""
    scopes.open.pop().__exit__(None, None, None)
