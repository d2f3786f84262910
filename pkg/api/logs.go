package api

// LogPositionHeader says up to where the output goes that an answer of logs has. It is opaque, and what ?after= takes.
const LogPositionHeader = "Shardctl-Log-Position"
