package protocol

// MCP revisions that the host speaks, both to clients and to extensions.
const (
	MCP20241105 = "2024-11-05"
	MCP20250326 = "2025-03-26"
	MCP20250618 = "2025-06-18"
	MCP20251125 = "2025-11-25" // the last legacy revision
	MCP20260728 = "2026-07-28" // the first modern revision
)

// Era is one of the two groups of MCP revisions between which version and
// capabilities are conveyed differently (MCP 2026-07-28, basic/lifecycle,
// "Terminology"). The values are ordered by age.
type Era int

const (
	EraNone   Era = iota // no MCP: a native or lite extension, a Go caller
	EraLegacy            // up to 2025-11-25: the client opens a session with initialize
	EraModern            // from 2026-07-28: no sessions; the _meta of every request holds version and capabilities
)

// EraOf returns the era of an MCP revision, [EraNone] for "".
func EraOf(revision string) Era {
	switch {
	case revision == "":
		return EraNone
	case revision < MCP20260728: // revisions are dates and sort as text
		return EraLegacy
	default:
		return EraModern
	}
}

// Names that MCP reserves in _meta (MCP 2026-07-28, basic, "_meta"), and the
// extension of MCP for tasks.
const (
	MetaPrefix             = "io.modelcontextprotocol/"
	MetaProtocolVersion    = MetaPrefix + "protocolVersion"    // of a modern request
	MetaClientInfo         = MetaPrefix + "clientInfo"         // of a modern request
	MetaClientCapabilities = MetaPrefix + "clientCapabilities" // of a modern request
	MetaLogLevel           = MetaPrefix + "logLevel"           // of a modern request that wants notifications/message
	MetaServerInfo         = MetaPrefix + "serverInfo"         // of a modern result
	MetaSubscriptionID     = MetaPrefix + "subscriptionId"     // of the messages of a subscriptions/listen
	MetaRelatedTask        = MetaPrefix + "related-task"       // names the task that a legacy message belongs to
	MetaProgressToken      = "progressToken"                   // of a request that wants notifications/progress, which repeat it

	// ExtensionTasks is the capability of modern tasks; legacy tasks are a
	// capability of their own, "tasks".
	ExtensionTasks = MetaPrefix + "tasks"
)

// Methods of MCP.
const (
	MethodInitialize           = "initialize"      // legacy, native
	MethodDiscover             = "server/discover" // modern
	MethodPing                 = "ping"            // legacy, native
	MethodToolsList            = "tools/list"
	MethodToolsCall            = "tools/call"
	MethodPromptsList          = "prompts/list"
	MethodPromptsGet           = "prompts/get"
	MethodResourcesList        = "resources/list"
	MethodResourceTemplates    = "resources/templates/list"
	MethodResourcesRead        = "resources/read"
	MethodResourcesSubscribe   = "resources/subscribe"   // legacy
	MethodResourcesUnsubscribe = "resources/unsubscribe" // legacy
	MethodListen               = "subscriptions/listen"  // modern
	MethodComplete             = "completion/complete"
	MethodSetLevel             = "logging/setLevel" // legacy
	MethodTasksList            = "tasks/list"       // legacy
	MethodTasksGet             = "tasks/get"
	MethodTasksResult          = "tasks/result" // legacy; waits for the result of the call that became a task
	MethodTasksUpdate          = "tasks/update" // modern
	MethodTasksCancel          = "tasks/cancel"

	// Requests to a client. Modern servers put them into results instead (MCP
	// 2026-07-28, basic/patterns/mrtr).
	MethodSample    = "sampling/createMessage"
	MethodElicit    = "elicitation/create"
	MethodRootsList = "roots/list"

	// Notifications.
	MethodInitialized              = "notifications/initialized" // legacy
	MethodProgress                 = "notifications/progress"
	MethodMessage                  = "notifications/message"
	MethodCancelled                = "notifications/cancelled"
	MethodToolsListChanged         = "notifications/tools/list_changed"
	MethodPromptsListChanged       = "notifications/prompts/list_changed"
	MethodResourcesListChanged     = "notifications/resources/list_changed"
	MethodResourceUpdated          = "notifications/resources/updated"
	MethodSubscriptionAcknowledged = "notifications/subscriptions/acknowledged" // modern
	MethodTaskStatus               = "notifications/tasks/status"               // legacy
)
