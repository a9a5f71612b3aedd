// Events between parts of the page that carry no state.

/** To the next (detail 1) or previous (detail -1) match of the search. */
export const TO_MATCH = 'whyslow-match';
