package process

import (
	"regexp"
	"slices"
	"strings"

	"github.com/exthost/exthost/internal/text/redact"
)

var (
	// codeInjection matches variables that make programs run foreign code.
	codeInjection = regexp.MustCompile(`(?i)^(LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH` +
		`|BASH_ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|ZDOTDIR` +
		`|NODE_OPTIONS|NODE_PATH|NODE_REPL_EXTERNAL_MODULE` +
		`|PYTHONSTARTUP|PYTHONPATH|PYTHONHOME|PYTHONINSPECT|PYTHONBREAKPOINT` +
		`|PERL5OPT|PERL5LIB|PERLLIB|PERL5DB|RUBYOPT|RUBYLIB|LUA_INIT.*|PHPRC|PHP_INI_SCAN_DIR` +
		`|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|DOTNET_STARTUP_HOOKS|CORECLR_PROFILER.*|COR_PROFILER.*` +
		`|GIT_SSH|GIT_SSH_COMMAND|GIT_EXEC_PATH|GIT_CONFIG_.*)$`)

	// harmlessNames matches names that mode "allowlist" always passes. The last line has those that Windows programs
	// need to start.
	harmlessNames = regexp.MustCompile(`^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|TERM|XDG_.*)$` +
		`|(?i)^((HTTPS?|FTP|ALL|NO)_PROXY)$` +
		`|(?i)^(SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATH|PATHEXT|TEMP|TMP|USERPROFILE|` +
		`APPDATA|LOCALAPPDATA|PROGRAMFILES|PROGRAMDATA)$`)
)

// secretWords make a name secret that has one of them as a whole word, as in API_KEY_PROD and
// ACCESS_TOKEN_2. Plural and longer words name other things: MAX_TOKENS, KEYBOARD, AUTHOR.
var secretWords = words("TOKEN KEY PASS PASSWD PASSPHRASE CREDS PAT AUTH AUTHORIZATION APIKEY BEARER SESSION JWT " +
	"COOKIE MNEMONIC SK WEBHOOK")

// secretParts make a name secret anywhere in it.
var secretParts = []string{"PASSWORD", "SECRET", "CREDENTIAL", "PRIVATE_KEY"}

// accessNames are not secrets, but give access to the user's secrets: sockets of agents and of the
// session bus, and credential files.
var accessNames = words("SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS KUBECONFIG")

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

func secretName(name string) bool {
	if accessNames[name] || strings.HasPrefix(name, "XDG_SESSION_") { // XDG_SESSION_* describes a login
		return false
	}
	name = strings.ToUpper(name)
	apart := func(r rune) bool { return r == '_' || '0' <= r && r <= '9' }
	for word := range strings.FieldsFuncSeq(name, apart) {
		if secretWords[word] {
			return true
		}
	}
	return strings.HasSuffix(name, "_PWD") ||
		slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(name, part) })
}

// LoadsCode reports whether a variable of this name makes programs run or load code named by its value.
func LoadsCode(name string) bool { return codeInjection.MatchString(name) }

// Withholds reports whether a variable is withheld from children by default: it is a secret, or gives access to the
// user's secrets.
func Withholds(name, value string) bool { return isSecret(name, value) || accessNames[name] }

// isSecret reports whether a variable is a secret, by its name or the form of its value.
func isSecret(name, value string) bool {
	return secretName(name) || passwordURL(value) || redact.HoldsSecret(value)
}

// Secrets returns the values in env that must not be shown, as they look like secrets by the rules of [Environ].
func Secrets(env []string) (values []string) {
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); isSecret(name, value) {
			values = append(values, value)
		}
	}
	return values
}

// passwordURL reports whether value contains a URL with a password: scheme://user:password@….
func passwordURL(value string) bool {
	for {
		_, rest, ok := strings.Cut(value, "://")
		if !ok {
			return false
		}
		if hasPassword(rest) {
			return true
		}
		value = rest
	}
}

// hasPassword checks the text after "://". A password may contain a raw "/", "?" or "#", at which
// the authority seems to end. What seems to be the port is then not a number.
func hasPassword(s string) bool {
	if i := strings.IndexAny(s, " \t\r\n\"'"); i >= 0 {
		s = s[:i]
	}
	authority, rest := s, ""
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority, rest = s[:i], s[i:]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		_, password, _ := strings.Cut(authority[:at], ":")
		return password != ""
	}
	_, port, ok := strings.Cut(authority, ":")
	return ok && strings.Contains(rest, "@") && !strings.HasPrefix(authority, "[") &&
		strings.Trim(port, "0123456789") != ""
}
