/** Why a job is queued: it is new or started over, or a run of it was interrupted. */
export type TurnKind = "start" | "resume";
