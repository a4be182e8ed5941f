// Package supply groups how code of others is fetched, stored, locked and trusted: packages and their store
// (which bytes), the lock file, and the user's trust (what may run).
package supply
