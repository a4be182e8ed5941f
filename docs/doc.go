// Package docs is the documentation. It holds no code: its tests run what the
// README and the pages beside it show, hold their tables against the code they
// describe, and write the generated parts (go generate ./docs).
package docs

//go:generate go test -run ^TestReference$ -update .
