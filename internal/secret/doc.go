// Package secret groups stored secrets, the logins of users at remote servers, and the tokens of clients. Masking
// of secrets is in text/redact.
package secret
