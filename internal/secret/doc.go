// Package secret has what only few may know: stored secrets, the logins of users at remote servers, and the tokens of
// clients. Masking is text/redact.
package secret
