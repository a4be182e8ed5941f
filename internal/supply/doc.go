// Package supply has how the code of others comes here and what of it may run: packages and their store, the lock file,
// and what the user agreed to.
package supply
