package serve

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/exthost/exthost"
)

// tokenName is the file in the state directory with the operator's token, which exists
// while a host serves HTTP. No extension's id begins with a dot.
const tokenName = ".operator-token"

// operatorToken authenticates the operator at the API and the dashboard of one run.
type operatorToken struct {
	text string
	file string
}

// newOperatorToken makes a token and writes it to a file that only this user can read.
func newOperatorToken() (operatorToken, error) {
	dir, err := exthost.DefaultStateDir()
	if err != nil {
		return operatorToken{}, err
	}
	t := operatorToken{text: rand.Text(), file: filepath.Join(dir, tokenName)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return t, err
	}
	if err := os.Remove(t.file); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a host that was killed
		return t, err
	}
	f, err := os.OpenFile(t.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return t, err
	}
	_, err = f.WriteString(t.text + "\n")
	return t, errors.Join(err, f.Close())
}

// forget removes the file if it still has this token.
func (t operatorToken) forget() {
	if kept, err := os.ReadFile(t.file); err == nil && string(kept) == t.text+"\n" {
		_ = os.Remove(t.file) // a token that stays has no use any more
	}
}
