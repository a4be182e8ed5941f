package agentplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/exthost/exthost/manifest"
)

// maxName is the maximum length of a plugin's name.
const maxName = 64

var (
	nameCharacters = regexp.MustCompile(`^[a-z0-9.-]+$`)
	nameEnds       = regexp.MustCompile(`^[a-z0-9](.*[a-z0-9])?$`)
)

// ValidateName returns why a name is not one of a plugin (section 5.5).
func ValidateName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxName:
		return fmt.Errorf("the name has %d characters; at most %d", len(name), maxName)
	case !nameCharacters.MatchString(name):
		return fmt.Errorf("the name %q has a character that is not one of a-z, 0-9, hyphen and period", name)
	case !nameEnds.MatchString(name):
		return fmt.Errorf("the name %q does not begin and end with a-z or 0-9", name)
	case strings.Contains(name, "--") || strings.Contains(name, ".."):
		return fmt.Errorf("the name %q has two - or two . in a row", name)
	}
	return nil
}

// PluginID returns the id of what of a plugin is no server: its name, or with a reserved name or one that is no id of
// an extension, {name}.plugin.
func PluginID(name string) string {
	if manifest.ValidateID(name) == nil {
		return name
	}
	return name + ".plugin"
}

// ServerID returns the id of the extension that a server becomes: {plugin}.{server}, the server in lower case with _
// for every other character than a-z, 0-9, _ and -, or {plugin} alone where both have one name, unless that is no id.
// A long name is cut and gets a hash.
func ServerID(plugin, server string) string {
	if server == plugin && manifest.ValidateID(plugin) == nil {
		return plugin
	}
	word := strings.ToLower(otherCharacters.ReplaceAllString(server, "_"))
	if word == "" {
		word = "_"
	}
	if len(word) > manifest.MaxIDLength {
		sum := sha256.Sum256([]byte(server))
		word = word[:manifest.MaxIDLength-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return plugin + "." + word
}

var otherCharacters = regexp.MustCompile(`[^A-Za-z0-9_-]`)
