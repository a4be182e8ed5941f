// Package grpcpolicy runs one process of a policy that serves
// mcpv.plugin.v1.PluginService on a unix socket, and asks it.
//
//	spawn → socket → GetMetadata → Configure → CheckReady … → ready ⇄ decide
//	      → Shutdown → SIGTERM → SIGKILL
//
// The process is told four things in its environment: the path of the socket
// (MCPV_PLUGIN_SOCKET, and MCPD_PLUGIN_SOCKET for older plugins), its name
// (MCPV_PLUGIN_NAME) and its category (MCPV_PLUGIN_CATEGORY). The socket is in a
// directory of its own that only this user may enter, new for each run.
//
// JSON crosses as the bytes it is. What is not an explicit "continue" is never an
// approval: an empty answer rejects, and everything else is an error.
package grpcpolicy

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.60.0 generate
