//go:build !slim

package hub

// SetClaims sets the account claims, as the revocation of a node does.
func (h *Hub) SetClaims() error { return h.setClaims(nil) }

// StoringAccounts returns the number of accounts whose directories the server has prepared.
func (h *Hub) StoringAccounts() int { return h.server.JetStreamNumAccounts() }
