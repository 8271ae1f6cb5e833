/** A question of a thread that somebody was shown: only then a text of theirs answers it. */
export interface ShownQuestion {
  /** Hash of the question and of who was shown it. A client without threads sends it back with its history. */
  readonly id: string;
  readonly job_id: string;
  readonly case_id: string;
  readonly question_id: string;
  /** When it was asked, ISO 8601: a job that was started over asks with the same ids. */
  readonly asked_at: string;
  /** Hash of what they had said before: the same text again is taken for a repetition. */
  readonly said: string;
  /** Number of an entry of the job's log before the answer. */
  readonly after: number;
}
