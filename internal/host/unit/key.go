package unit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Prefix and suffix of the keys of instances.
const (
	sessionPrefix   = "session "
	statelessSuffix = " stateless"
)

// KindElsewhere is the kind of the transport of an extension that is at other nodes alone.
const KindElsewhere = status.TransportCluster

// SessionKey returns the key of the instance that serves s where each session has an
// instance of its own. Anonymous stateless callers share the key "". A stateless caller
// has an instance of its own name and variables. A child's session has one protocol
// version, so that the key tells legacy and modern clients apart.
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

// IsSessionKey reports whether key is of a session with an id.
func IsSessionKey(key string) bool { return strings.HasPrefix(key, sessionPrefix) }

func isLegacyKey(key string) bool {
	return IsSessionKey(key) && !strings.HasSuffix(key, statelessSuffix)
}

// digest tells variables of different sessions apart without showing their values.
func digest(env map[string]string) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%q=%q\n", name, env[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
