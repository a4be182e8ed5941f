package agefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"filippo.io/age"

	"github.com/exthost/exthost/internal/file"
)

// maxIdentity limits the key file, in bytes.
const maxIdentity = 64 << 10

// identities reads the keys.
func (s Store) identities() ([]age.Identity, error) {
	text, err := readPrivate(s.Identity, maxIdentity)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &refusal{
			fmt.Sprintf("the key of %s is gone: there is no %s", s.Path, s.Identity),
			"restore it from a backup; without it, remove " + s.Path + " and set the secrets again",
		}
	}
	if err != nil {
		return nil, err
	}
	keys, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil { // dropped, because it may quote the key
		return nil, fmt.Errorf("%s is no file of age keys", s.Identity)
	}
	return keys, nil
}

// recipients returns the public keys to encrypt for. It creates the key file if there is none.
func (s Store) recipients() ([]age.Recipient, error) {
	if _, err := readPrivate(s.Identity, maxIdentity); errors.Is(err, fs.ErrNotExist) {
		if err := s.makeIdentity(); err != nil {
			return nil, err
		}
	}
	keys, err := s.identities()
	if err != nil {
		return nil, err
	}
	var to []age.Recipient
	for _, key := range keys {
		switch key := key.(type) {
		case *age.X25519Identity:
			to = append(to, key.Recipient())
		case *age.HybridIdentity:
			to = append(to, key.Recipient())
		default:
			return nil, fmt.Errorf("%s has a key of a kind that this program does not know", s.Identity)
		}
	}
	return to, nil
}

func (s Store) makeIdentity() error {
	if _, err := readPrivate(s.Path, maxFile); !errors.Is(err, fs.ErrNotExist) {
		_, err := s.identities() // reports that the key is missing
		return err
	}
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("# The key of %s. Keep a copy in a safe place.\n# public key: %s\n%s\n", s.Path,
		key.Recipient(), key)
	return file.WritePrivate(s.Identity, []byte(text))
}
