/** Why a job waits for its turn: it is new or begun afresh, or a run of it was cut short. */
export type TurnKind = "start" | "resume";
