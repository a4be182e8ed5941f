//go:build !slim

package hub

// SetClaims sets the account claims, as the revocation of a node does.
func (h *Hub) SetClaims() error { return h.setClaims(nil) }
