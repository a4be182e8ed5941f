//go:build !nohub

package hub

// SetClaims gives the server the claims of the nodes' account, as when a node is revoked.
func (h *Hub) SetClaims() error { return h.setClaims(nil) }
