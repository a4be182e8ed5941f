package credentials

import (
	"fmt"
	"strings"
)

// OfText reads credentials for servers outside of the cluster: the text of a NATS credentials file, an NKey
// seed, or otherwise a token. The returned Credentials contain no servers. Errors do not quote the text.
func OfText(text string) (c *Credentials, token string, err error) {
	switch {
	case strings.Contains(text, beginJWT):
		if c, err = parse(text); err != nil {
			return nil, "", fmt.Errorf("it is no file of NATS credentials: %w", err)
		}
		return c, "", nil
	case strings.HasPrefix(seedIn(text), "SU"):
		k, err := parseSeed(seedIn(text))
		if err != nil {
			return nil, "", fmt.Errorf("it holds no NKey of a user: %w", err)
		}
		return &Credentials{NKey: k.public(), Sign: k.sign}, "", nil
	}
	return new(Credentials), strings.TrimSpace(text), nil
}
