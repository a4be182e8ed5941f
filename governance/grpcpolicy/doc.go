// Package grpcpolicy runs the process of a policy that serves mcpv.plugin.v1.PluginService
// on a unix socket, and calls it.
//
//	spawn → socket → GetMetadata → Configure → CheckReady … → ready ⇄ decide
//	      → Shutdown → SIGTERM → SIGKILL
//
// The process gets four variables: the path of the socket (MCPV_PLUGIN_SOCKET, and
// MCPD_PLUGIN_SOCKET for older plugins), its name (MCPV_PLUGIN_NAME) and its category
// (MCPV_PLUGIN_CATEGORY). Each run has a socket in a new directory that only this user may
// enter.
//
// JSON is passed on byte for byte. Only an explicit "continue" allows: an empty answer
// rejects, and anything else is an error.
package grpcpolicy

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.60.0 generate
