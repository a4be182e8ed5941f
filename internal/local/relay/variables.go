package relay

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"runtime"
	"slices"
	"strings"
)

// variables maps names to values. Relay and host compare theirs without exchanging values.
type variables map[string]string

// parseEnviron parses NAME=value pairs.
func parseEnviron(environ []string) variables {
	env := make(variables, len(environ))
	for _, kv := range environ {
		if i := strings.Index(kv[min(1, len(kv)):], "="); i >= 0 { // Windows has names that start with "="
			env[envName(kv[:i+1])] = kv[i+2:]
		}
	}
	return env
}

// envName normalizes the case of a name on Windows.
func envName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// digests returns a keyed hash of each variable, so that values do not leave the process.
func (e variables) digests(nonce string) map[string]string {
	sums := make(map[string]string, len(e))
	for name, value := range e {
		sums[name] = digest(nonce, name, value)
	}
	return sums
}

func digest(nonce, name, value string) string {
	mac := hmac.New(sha256.New, []byte(nonce))
	_, _ = io.WriteString(mac, name+"\x00"+value)
	return base64.RawStdEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// located are the variables that determine where configuration files are.
var located = []string{"HOME", "XDG_CONFIG_HOME", "USERPROFILE", "APPDATA", "PROGRAMDATA"}

// settingsPrefix starts the names of variables that set configuration keys.
const settingsPrefix = "EXTHOST_"

// differ returns the sorted names of variables whose values differ from a client's digests, or nil. It compares the
// variables in names, those in located, and those with settingsPrefix.
func (e variables) differ(sums map[string]string, nonce string, names []string) (others []string) {
	all := slices.Concat(names, located)
	for name := range e {
		if strings.HasPrefix(name, settingsPrefix) {
			all = append(all, name)
		}
	}
	for name := range sums {
		if strings.HasPrefix(name, settingsPrefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		value, here := e[envName(name)]
		sum, there := sums[envName(name)]
		if here != there || here && !hmac.Equal([]byte(sum), []byte(digest(nonce, envName(name), value))) {
			others = append(others, name)
		}
	}
	return others
}
