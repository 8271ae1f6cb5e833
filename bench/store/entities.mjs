/** Jobs of 2 to 6 kB and cases of 2 to 8 kB, the same in every run. */

const STATUSES = [
  "completed",
  "completed",
  "completed",
  "failed",
  "in_progress",
  "awaiting",
  "stopped",
  "cancelled",
];
const WORDS = "invoice supplier amount total order number overdue checked paid refused audit report".split(
  " ",
);

/** Text of about so many characters, made of words. */
function text(length, seed) {
  let made = "";
  for (let at = seed; made.length < length; at += 7) made += `${WORDS[at % WORDS.length]} ${at} `;
  return made;
}

/** Timestamps a second apart. */
function time(number) {
  return new Date(Date.UTC(2026, 0, 1) + number * 1000).toISOString();
}

export function job(number) {
  const id = `job-${String(number).padStart(8, "0")}`;
  return {
    id,
    name: `Audit ${number} of ${WORDS[number % WORDS.length]}`,
    agent_name: `agent-${number % 7}`,
    status: STATUSES[number % STATUSES.length],
    job_context: {
      workspace_id: `w${number % 3}`,
      job_id: id,
      started_by: "bench",
      started_at: time(number),
      mission_id: "m",
      mission_name: "Bench",
      mission_context: null,
      job_instructions: null,
    },
    payload: { text: text(1000 + ((number * 37) % 4000), number) },
    result: null,
    error: null,
    responses: [],
    finished_at: null,
    created_at: time(number),
    updated_at: time(number),
    agent_parameters: null,
    case_count: 3,
    job_fields: { file: `invoices/${number}.csv`, threshold: 1000 },
    total_cost: 0.01,
    stop_reason: null,
    fingerprint: String(number),
    encrypted_agent_parameters: null,
    open_questions: 0,
    run_count: 1,
    idempotency_key: null,
  };
}

export function caseOf(number, at) {
  const jobId = `job-${String(number).padStart(8, "0")}`;
  const updates = [1, 2, 3].map((index) => ({
    index,
    cost: 0.002,
    name: WORDS[index],
    payload: { text: text(500 + ((number * 53 + at * 11) % 2000), number + at + index) },
    is_final: index === 3,
    error: null,
    created_at: time(number),
  }));
  return {
    id: `${jobId}-${at}`,
    job_id: jobId,
    ref: `invoice-${at}`,
    name: `Invoice ${number}-${at}`,
    account: { workspace_id: "w", api_url: null, api_key: null },
    description: `${WORDS[(number + at) % WORDS.length]} ${number * 3 + at} of ${WORDS[number % WORDS.length]}`,
    status: STATUSES[(number + at) % STATUSES.length],
    updates,
    total_cost: 0.006,
    final_delivery: null,
    finished_at: null,
    created_at: time(number),
    updated_at: time(number),
    question: null,
  };
}
