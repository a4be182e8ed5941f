package protocol

// MCP versions that the host speaks with clients and extensions.
const (
	MCP20241105 = "2024-11-05"
	MCP20250326 = "2025-03-26"
	MCP20250618 = "2025-06-18"
	MCP20251125 = "2025-11-25" // the last legacy version
	MCP20260728 = "2026-07-28" // the first modern version
)

// IsLegacy reports whether version is an MCP version up to 2025-11-25, where the client opens a session with
// initialize (MCP 2026-07-28, basic/lifecycle, "Terminology"). "" is neither legacy nor modern.
func IsLegacy(version string) bool {
	return version != "" && version < MCP20260728 // versions are dates and sort as text
}

// IsModern reports whether version is an MCP version from 2026-07-28 on: no sessions, and every request has
// version and capabilities in _meta.
func IsModern(version string) bool { return version >= MCP20260728 }

// UncachedMembers are the members that modern versions require in a list result that is complete and must not be
// cached.
const UncachedMembers = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`

// Keys that MCP reserves in _meta (MCP 2026-07-28, basic, "_meta"), and official extensions of MCP.
const (
	MetaPrefix             = "io.modelcontextprotocol/"
	MetaProtocolVersion    = MetaPrefix + "protocolVersion"    // of a modern request
	MetaClientInfo         = MetaPrefix + "clientInfo"         // of a modern request
	MetaClientCapabilities = MetaPrefix + "clientCapabilities" // of a modern request
	MetaLogLevel           = MetaPrefix + "logLevel"           // of a modern request that wants notifications/message
	MetaServerInfo         = MetaPrefix + "serverInfo"         // of a modern result
	MetaSubscriptionID     = MetaPrefix + "subscriptionId"     // of the messages of a subscriptions/listen
	MetaRelatedTask        = MetaPrefix + "related-task"       // names the task that a legacy message belongs to
	// of a request that wants notifications/progress
	MetaProgressToken = "progressToken"

	// ExtensionTasks is the capability of modern tasks. Legacy tasks have the capability "tasks".
	ExtensionTasks = MetaPrefix + "tasks"
	// ExtensionSkills is the extension for skills (SEP-2640): resources that have lists of their own.
	ExtensionSkills = MetaPrefix + "skills"
	// ExtensionUI is MCP Apps (SEP-1865): pages that clients show beside results.
	ExtensionUI = MetaPrefix + "ui"
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
	MethodSkillsList           = "skills/list"              // of [ExtensionSkills]
	MethodSkillsGet            = "skills/get"               // of [ExtensionSkills]
	MethodDirectoryRead        = "resources/directory/read" // of [ExtensionSkills], if the server states directoryRead
	MethodSetLevel             = "logging/setLevel"         // legacy
	MethodTasksList            = "tasks/list"               // legacy
	MethodTasksGet             = "tasks/get"
	MethodTasksResult          = "tasks/result" // legacy; waits for the result of the call that became a task
	MethodTasksUpdate          = "tasks/update" // modern
	MethodTasksCancel          = "tasks/cancel"

	// Requests to a client. Modern servers return them in results instead (MCP 2026-07-28, basic/patterns/mrtr).
	MethodSample    = "sampling/createMessage"
	MethodElicit    = "elicitation/create"
	MethodRootsList = "roots/list"

	// Notifications.
	MethodInitialized              = "notifications/initialized" // legacy
	MethodProgress                 = "notifications/progress"
	MethodMessage                  = "notifications/message"
	MethodCancelled                = "notifications/cancelled"
	MethodRootsListChanged         = "notifications/roots/list_changed" // legacy
	MethodElicitComplete           = "notifications/elicitation/complete"
	MethodToolsListChanged         = "notifications/tools/list_changed"
	MethodPromptsListChanged       = "notifications/prompts/list_changed"
	MethodResourcesListChanged     = "notifications/resources/list_changed"
	MethodResourceUpdated          = "notifications/resources/updated"
	MethodSubscriptionAcknowledged = "notifications/subscriptions/acknowledged" // modern
	MethodTaskStatus               = "notifications/tasks/status"               // legacy
)

// TaskMethods is the prefix of methods about tasks.
const TaskMethods = "tasks/"
