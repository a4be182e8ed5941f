package status

// Untrusted is what a person agrees to with one yes before it runs: a folder with its extensions, or the configuration
// of the host's directory. Secrets in command lines are masked.
type Untrusted struct {
	Names    []string `json:"names"`              // ids of extensions; "." is the configuration
	Place    string   `json:"place"`              // the folder, or the configuration files
	Runs     []string `json:"runs"`               // command lines
	Asks     []string `json:"asks"`               // connections, secrets, sandbox, and settings
	Changes  []string `json:"changes,omitempty"`  // files that changed since they were trusted
	Rules    []string `json:"rules,omitempty"`    // changes of policies and hooks, as lines with + and -
	Warnings []string `json:"warnings,omitempty"` // about the policies
	Files    int      `json:"files"`              // number of files of code
	Reason   string   `json:"reason,omitempty"`   // why it cannot be trusted; "" if it can
	Digest   string   `json:"digest"`             // of all that is shown, and of the files; an answer states it
}
