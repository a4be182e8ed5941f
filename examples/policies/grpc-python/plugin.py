"""A policy of kind grpc that limits how often a caller calls a tool. It requires the
package grpcio-tools, and plugin.proto in its directory.
"""
import json
import os
import signal
import threading
import time
from concurrent import futures

import grpc

os.chdir(os.path.dirname(os.path.abspath(__file__)))
messages, services = grpc.protos_and_services("plugin.proto")

from google.protobuf.empty_pb2 import Empty  # noqa: E402

MAX_MESSAGE = 2 * (16 << 20) + (64 << 10)  # gRPC's default of 4 MiB is too small for large results


class Plugin(services.PluginServiceServicer):
    def __init__(self):
        self.per_minute = 60
        self.lock = threading.Lock()
        self.minute = None
        self.calls = {}

    def GetMetadata(self, request, context):
        return messages.PluginMetadata(name=os.environ["MCPV_PLUGIN_NAME"], category="rate_limiting", flows=["request", "response"])

    def Configure(self, request, context):
        try:
            self.per_minute = int(json.loads(request.config_json or "{}").get("per_minute", self.per_minute))
        except (ValueError, TypeError, AttributeError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"config: {error}")
        return messages.PluginConfigureResponse()

    def CheckReady(self, request, context):
        return messages.PluginReadyResponse(ready=True)

    def HandleRequest(self, request, context):
        minute, key = int(time.time() // 60), (request.caller, request.tool_name)
        with self.lock:
            if minute != self.minute:
                self.minute, self.calls = minute, {}
            self.calls[key] = self.calls.get(key, 0) + 1
            if self.calls[key] > self.per_minute:
                return messages.PluginHandleResponse(
                    reject_code="rate_limited", reject_message=f"more than {self.per_minute} calls in this minute; wait for the next"
                )
        return allow()

    def HandleResponse(self, request, context):
        return allow()

    def Shutdown(self, request, context):
        return Empty()


def allow():
    """Allows the exchange. An empty answer would reject it."""
    return messages.PluginHandleResponse(**{"continue": True})


def main():
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=16),
        options=[("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)],
    )
    services.add_PluginServiceServicer_to_server(Plugin(), server)
    server.add_insecure_port("unix:" + os.environ["MCPV_PLUGIN_SOCKET"])
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: server.stop(grace=1))
    server.wait_for_termination()


if __name__ == "__main__":
    main()
