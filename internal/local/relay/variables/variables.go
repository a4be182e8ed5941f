// Package variables compares the environments of two processes, which do not tell each other the values.
package variables

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"runtime"
	"slices"
	"strings"
)

// Set is a set of variables by name.
type Set map[string]string

// Parse returns the variables in an environment of NAME=value.
func Parse(environ []string) Set {
	env := make(Set, len(environ))
	for _, kv := range environ {
		if i := strings.Index(kv[min(1, len(kv)):], "="); i >= 0 { // on Windows a name can start with "="
			env[envName(kv[:i+1])] = kv[i+2:]
		}
	}
	return env
}

// envName is the same for all spellings of the name of a variable.
func envName(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToUpper(name)
	}
	return name
}

// Digests returns a keyed hash of each variable: the values do not leave the process.
func (e Set) Digests(nonce string) map[string]string {
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

// located are the variables that say where the files of the configuration are.
var located = []string{"HOME", "XDG_CONFIG_HOME", "USERPROFILE", "APPDATA", "PROGRAMDATA"}

// settings begins the names of the variables that set keys of the configuration.
const settings = "EXTHOST_"

// Differ returns the names of the variables that have another value for a client with these
// digests, among names, those of the configuration and located; nil if there is none.
func (e Set) Differ(sums map[string]string, nonce string, names []string) (others []string) {
	all := slices.Concat(names, located)
	for name := range e {
		if strings.HasPrefix(name, settings) {
			all = append(all, name)
		}
	}
	for name := range sums {
		if strings.HasPrefix(name, settings) {
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
