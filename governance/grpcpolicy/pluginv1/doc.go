// Package pluginv1 is the service mcpv.plugin.v1.PluginService in Go, with its client and server.
// Policies of kind grpc serve it. It is generated from plugin.proto, which documents the fields.
//
// An empty PluginHandleResponse rejects, so a policy that forgets to fill it in allows nothing.
package pluginv1
