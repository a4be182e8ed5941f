// Package pluginv1 is mcpv.plugin.v1.PluginService in Go: what a policy of kind
// grpc serves, for both ends. plugin.proto says what the fields mean; the rest is
// generated from it.
//
// An empty PluginHandleResponse rejects. A policy that forgets to answer refuses.
package pluginv1
