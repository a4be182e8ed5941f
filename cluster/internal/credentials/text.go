package credentials

import (
	"fmt"
	"strings"
)

// OfText reads what a user of servers that are not of a cluster has: the text of a file of NATS
// credentials, the seed of an NKey, or else a token, which it returns. The Credentials name no
// servers. The error quotes nothing of the text.
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
