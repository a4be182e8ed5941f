package config

import "github.com/exthost/exthost/manifest"

// The values of Secrets.Provider.
const (
	SecretsAge     = "age"
	SecretsKeyring = "keyring"
	SecretsCommand = "command"
	SecretsEnv     = "env"
	SecretsFile    = "file"
)

// Secrets sets where the secrets of secret://NAME are kept.
type Secrets struct {
	// an encrypted file, the system's keyring, a program that prints a secret, variables of the host, or files;
	// the whole section is not allowed in a project's file; default age
	Provider string `json:"provider" jsonschema:"enum=age,enum=keyring,enum=command,enum=env,enum=file"`
	// age: the encrypted file; file: a directory with a file for each secret, or one file of NAME=value lines;
	// default for age: secrets/secrets.age in the user's directory
	Path string `json:"path,omitempty" path:"true"`
	// age: the key file, created by the first exthost secret set; default: identity beside path
	Identity string `json:"identity,omitempty" path:"true"`
	// command: argv, or one string; {name} is replaced by the secret's name
	Command manifest.Command `json:"command,omitempty"`
	// command and keyring: limit of one request; default 30 s
	Timeout manifest.Duration `json:"timeout"`

	// directory of the logins of exthost secret login, each encrypted in a directory of its own; default logins in the
	// user's directory
	Logins string `json:"logins,omitempty" path:"true"`

	// Dir is where Command runs: the directory of the file that states the command. [Load] sets it.
	Dir string `json:"-"`
}

// SecretUse is a reference to a stored secret.
type SecretUse struct {
	Key     string // the key whose value holds the reference
	Name    string // the secret's name
	Project bool   // the reference is in a project's file, which must not decide who gets the secret
}

// NotOfProject says why a project's reference to a secret is refused.
const NotOfProject = "a project's file cannot send the user's secrets to where it chooses; state this in the user's " +
	"file, or in one of --config FILE"
