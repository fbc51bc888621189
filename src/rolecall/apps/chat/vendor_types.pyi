# Written by tools/vendor_types.py from calls.py: do not edit.
# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false
from collections.abc import Iterable
from typing import Any, overload

from typing_extensions import TypeVar, Unpack

from rolecall.apps.chat.call_options import (
    AnthropicSampling,
    BatchFields,
    CallFields,
    LocalSampling,
    MistralSampling,
    ServedFields,
)
from rolecall.apps.chat.chat_reply import ChatReply
from rolecall.apps.chat.module import ChatModule
from rolecall.apps.chat.online import OnlineChatModule, OnlineFields
from rolecall.apps.chat.streaming import AsyncStream, Stream

T = TypeVar('T', default=str)
V = TypeVar('V', default=None)

class AnthropicOptions(AnthropicSampling, OnlineFields, total=False): ...
class AnthropicCallOptions(AnthropicSampling, ServedFields, total=False): ...
class AnthropicBatchOptions(AnthropicCallOptions, BatchFields, total=False): ...

class AnthropicModule(OnlineChatModule):
    @overload
    def __call__(
        self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> T: ...
    @overload
    def __call__(self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]) -> Any: ...
    @overload
    async def acall(
        self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> T: ...
    @overload
    async def acall(self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]) -> Any: ...
    @overload
    def reply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    def reply(self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]) -> ChatReply[Any]: ...
    @overload
    async def areply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    async def areply(
        self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]
    ) -> ChatReply[Any]: ...
    @overload
    def stream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> Stream[V]: ...
    @overload
    def stream(self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]) -> Stream[Any]: ...
    @overload
    def astream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[AnthropicCallOptions]
    ) -> AsyncStream[V]: ...
    @overload
    def astream(self, user: Any, /, *, returns: Any, **options: Unpack[AnthropicCallOptions]) -> AsyncStream[Any]: ...
    @overload
    def batch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[AnthropicBatchOptions]
    ) -> list[T]: ...
    @overload
    def batch(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[AnthropicBatchOptions]
    ) -> list[Any]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[AnthropicBatchOptions]
    ) -> list[T]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[AnthropicBatchOptions]
    ) -> list[Any]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: type[V] | None = ..., **options: Unpack[AnthropicBatchOptions]
    ) -> list[ChatReply[V]]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[AnthropicBatchOptions]
    ) -> list[ChatReply[Any]]: ...
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Unpack[AnthropicBatchOptions]
    ) -> list[ChatReply[Any]]: ...

class MistralOptions(MistralSampling, OnlineFields, total=False): ...
class MistralCallOptions(MistralSampling, ServedFields, total=False): ...
class MistralBatchOptions(MistralCallOptions, BatchFields, total=False): ...

class MistralModule(OnlineChatModule):
    @overload
    def __call__(self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[MistralCallOptions]) -> T: ...
    @overload
    def __call__(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> Any: ...
    @overload
    async def acall(
        self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[MistralCallOptions]
    ) -> T: ...
    @overload
    async def acall(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> Any: ...
    @overload
    def reply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[MistralCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    def reply(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> ChatReply[Any]: ...
    @overload
    async def areply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[MistralCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    async def areply(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> ChatReply[Any]: ...
    @overload
    def stream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[MistralCallOptions]
    ) -> Stream[V]: ...
    @overload
    def stream(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> Stream[Any]: ...
    @overload
    def astream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[MistralCallOptions]
    ) -> AsyncStream[V]: ...
    @overload
    def astream(self, user: Any, /, *, returns: Any, **options: Unpack[MistralCallOptions]) -> AsyncStream[Any]: ...
    @overload
    def batch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[MistralBatchOptions]
    ) -> list[T]: ...
    @overload
    def batch(self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[MistralBatchOptions]) -> list[Any]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[MistralBatchOptions]
    ) -> list[T]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[MistralBatchOptions]
    ) -> list[Any]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: type[V] | None = ..., **options: Unpack[MistralBatchOptions]
    ) -> list[ChatReply[V]]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[MistralBatchOptions]
    ) -> list[ChatReply[Any]]: ...
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Unpack[MistralBatchOptions]
    ) -> list[ChatReply[Any]]: ...

class LocalCallOptions(LocalSampling, CallFields, total=False): ...
class LocalBatchOptions(LocalCallOptions, BatchFields, total=False): ...

class LocalModule(ChatModule):
    @overload
    def __call__(self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[LocalCallOptions]) -> T: ...
    @overload
    def __call__(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> Any: ...
    @overload
    async def acall(self, user: Any, /, *, returns: type[T] | None = ..., **options: Unpack[LocalCallOptions]) -> T: ...
    @overload
    async def acall(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> Any: ...
    @overload
    def reply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[LocalCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    def reply(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> ChatReply[Any]: ...
    @overload
    async def areply(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[LocalCallOptions]
    ) -> ChatReply[V]: ...
    @overload
    async def areply(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> ChatReply[Any]: ...
    @overload
    def stream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[LocalCallOptions]
    ) -> Stream[V]: ...
    @overload
    def stream(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> Stream[Any]: ...
    @overload
    def astream(
        self, user: Any, /, *, returns: type[V] | None = ..., **options: Unpack[LocalCallOptions]
    ) -> AsyncStream[V]: ...
    @overload
    def astream(self, user: Any, /, *, returns: Any, **options: Unpack[LocalCallOptions]) -> AsyncStream[Any]: ...
    @overload
    def batch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[LocalBatchOptions]
    ) -> list[T]: ...
    @overload
    def batch(self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[LocalBatchOptions]) -> list[Any]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: type[T] | None = ..., **options: Unpack[LocalBatchOptions]
    ) -> list[T]: ...
    @overload
    async def abatch(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[LocalBatchOptions]
    ) -> list[Any]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: type[V] | None = ..., **options: Unpack[LocalBatchOptions]
    ) -> list[ChatReply[V]]: ...
    @overload
    def batch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any, **options: Unpack[LocalBatchOptions]
    ) -> list[ChatReply[Any]]: ...
    async def abatch_replies(
        self, inputs: Iterable[Any], /, *, returns: Any = None, **options: Unpack[LocalBatchOptions]
    ) -> list[ChatReply[Any]]: ...
