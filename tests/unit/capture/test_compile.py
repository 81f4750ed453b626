"""The pass that carries our cache key keeps the user's passes and their names."""

from __future__ import annotations

from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

from kernelscope.capture.inductor.compile import _CacheKey, _patches


class UsersPass(CustomGraphPass):
    def __init__(self, name):
        self.name, self.ran = name, 0

    def __call__(self, graph):
        self.ran += 1

    def uuid(self):
        return self.name


def test_users_pass_runs_and_is_part_of_the_key():
    users = UsersPass("mine")
    ours = _CacheKey("k", users)
    ours(None)
    assert users.ran == 1
    assert ours.uuid() not in (_CacheKey("k", None).uuid(), _CacheKey("k", UsersPass("other")).uuid())


def test_a_pass_without_a_name_stops_caching():
    assert _CacheKey("k", [lambda graph: None]).uuid() is None


def test_the_key_is_put_in_once():
    with config.patch(_patches("k")):
        first = config.post_grad_custom_post_pass
        assert _patches("k")["post_grad_custom_post_pass"] is first
    assert _patches("other")["post_grad_custom_post_pass"].uuid() != first.uuid()
