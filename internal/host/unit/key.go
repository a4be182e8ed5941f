package unit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/protocol"
)

// Parts of the keys of instances.
const (
	sessionPrefix   = "session "
	statelessSuffix = " stateless"
)

// SessionKey returns the key of the instance that serves s if each session has its own instance. Anonymous
// stateless callers share the key "". Other stateless callers have an instance per name and variables. A child
// speaks one protocol version per session, so legacy and modern clients have different keys.
func SessionKey(s *protocol.Session) string {
	if s == nil {
		return ""
	}
	key := sessionPrefix + s.ID
	if s.ID == "" {
		if key = "caller " + s.Caller; len(s.Env) > 0 {
			key += " with " + digest(s.Env)
		}
	}
	if s.ID == "" && s.Caller == "" && len(s.Env) == 0 {
		return ""
	}
	if protocol.IsModern(s.Version) {
		key += statelessSuffix
	}
	return key
}

// IsSessionKey reports whether key belongs to a session with an id.
func IsSessionKey(key string) bool { return strings.HasPrefix(key, sessionPrefix) }

// isLegacyKey reports whether the instance with that key serves only legacy clients.
func isLegacyKey(key string) bool {
	return key == legacyKey || IsSessionKey(key) && !strings.HasSuffix(key, statelessSuffix)
}

// digest distinguishes variables of different sessions without showing their values.
func digest(env map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%q=%q\n", name, env[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
