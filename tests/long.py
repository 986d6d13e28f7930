"""The tests that `make test` omits, because they take long and shorter ones make much the same claim; `make test-long`
runs them, and .ci/run runs both.

`conftest.py` marks them `long` by this table: the test, and a regular expression for its cases ("" for all).
"""

import re

import pytest

LONG = {
    # Compiling for a GPU; `make test-ptx` compiles every division of the table of tiles.
    "cuda/test_compile.py::test_kernel_fits": r"persistent.*(H 800|gru|lstm backward float32|lstm forward bfloat16|"
    r"H 512 B 128: 16x8|16x4|32x3)|float64|float32 of (1|2|6|10)$|(forward|backward)_loop[0-4]",
    # What stands for a GPU: hundreds of thousands of threads, and kernels of each cell to be compiled.
    "cuda/test_cells.py::test_a_program_means_what_the_interpreter_says": r"^(?!(lstm|gru_reset_before|stack)-|"
    "lstm_bahdanau_feed-float32)",
    "cuda/test_cells.py::test_every_other_cell_means_what_the_interpreter_says": r"^(?!layer_norm|slstm|conv|gla)",
    "cuda/test_cells.py::test_loops_that_come_again_are_recorded": "lstm_bahdanau",
    "cuda/test_cells.py::test_products_in_bfloat16_round_as_the_processor_does": "feed|before",
    "cuda/test_persistent.py::test_weights_in_shared_memory": "True",
    "cuda/test_search.py::test_options_are_those_of_the_processor": "^(forbidden|reward)$",
    "cuda/test_search.py::test_ensembles_are_those_of_the_processor": "prob-options1",
    "cuda/test_search.py::test_a_step_is_recorded_and_done_again": "options1",
    "model/test_gradients.py::test_gradients_equal_a_finite_difference_on_a_gpu": "conv|conditional|dropout|lexical|"
    "gru|projected|multi_head",
    "benchmarks/test_card.py::test_a_dry_run_of_all_steps": "",
    # Levels of processors and formats that other cases compile as well.
    "exporting/c/test_library.py::test_translations_and_scores_are_those_of_python_to_the_last_bit": "lstm|gru|atten",
    "exporting/c/test_text.py::test_all_kinds_of_models_give_the_ids_and_the_text": "nfkc|pieces|none|nfc-False",
    "exporting/web/test_web.py::test_translations_scores_and_attention_are_those_of_python": "lstm|attention|lexical$",
    "precompile/test_packs.py::test_every_level_is_made_on_every_machine": "",
    "rnn/kernels/test_bfloat16.py::test_every_target_without_a_matrix_unit_gives_the_same_bits": "avx512",
    "rnn/kernels/test_int8.py::test_every_target_gives_the_same_bits": "avx512-|vnni|bytes",
    "rnn/test_compute_dtype.py::test_scans_on_a_smaller_vector_unit": "generic",
    "precompile/test_packs.py::test_a_damaged_pack_is_compiled_anew_and_said_once": "",
    "precompile/test_packs.py::test_two_builds_give_the_same_bytes": "",
    "cli/test_cli_cache.py::test_a_command_tells_of_compilation_once_on_a_machine": "",
    "learning/test_learning.py::test_a_pair_is_known_at_the_next_sentence": "bfloat16",
    "learning/test_learning.py::test_other_models_learn_the_same_twice": "tied|dropout",
    "decode/test_matrix_states.py::test_every_search_finds_what_it_finds_with_copies": "bfloat16|int8",
    "rnn/test_checking.py::test_a_cell_edited_five_times_in_a_notebook_has_its_own_results_each_time": "",
    # Products and gradients of cells whose parts other cells have as well.
    "rnn/test_products.py::test_products": "no_bias|general|dot|dropout|layer_norm|clip|one_size|window1|head_decay|"
    "linear_attention|hgrn2|kda",
    "model/test_gradients.py::test_gradients_equal_finite_differences": "linear_readout|conv_|_conv|tied_softmax|"
    "above_projection|no_input|variational|hawk",
    "model/test_copying.py::test_gradients_are_those_of_the_loss": "decoder[1234]",
    # Convolutions take a search of many compiled shapes.
    "decode/test_beam.py::test_batches_and_threads_do_not_change_a_translation": "^conv|^lstm_to_conv|^gru",
    "decode/test_beam.py::test_a_score_is_minus_the_training_loss": "conv_|_conv",
    "decode/test_beam.py::test_a_wide_beam_finds_what_brute_force_finds": "^conv-[1-9]",
    # Trainings from texts to translations, and pages that have some.
    "recipes/test_recipes.py::test_a_recipe_from_texts_to_files_and_once_only": "",
    "test_tutorials.py::test_a_notebook_runs_and_gives_what_it_shows": "first|comparing|state",
    "test_tutorials.py::test_the_site_is_built_without_a_warning_and_asks_no_other_host": "",
    "test_tutorials.py::test_a_page_can_be_followed": "letters|idea|own|interactive",
    "test_methods.py::test_two_models_of_edits_spell_words_together": "",
    # Processes that wait for one another.
    "test_callers.py::test_many_callers_get_the_serial_answers": "96",
    "train/test_ranks.py::test_a_signal_stops_all_ranks_after_the_same_update": "15",
    "train/test_ranks.py::test_four_ranks_start_from_another_model_and_go_on": "",
    "train/test_ranks.py::test_ranks_are_one_process_with_as_many_batches": "3",
    "witness/test_planted.py::test_commands_end_well_whatever_call_fails": "bundle|reload",
    # Texts of megabytes.
    "documents/test_growth.py::test_readers_of_markup_grow_in_line": "snippet|vtt|xml",
    "serve/test_attacks.py::test_no_file_keeps_others_waiting_or_takes_the_memory": "A10",
    "serve/test_attacks.py::test_no_text_keeps_others_waiting": "A2 a row of digits for the page",
}


def is_long(item: pytest.Item) -> bool:
    """Return whether the table names this case of a test."""
    test, _, case = item.nodeid.removeprefix("tests/").partition("[")
    return test in LONG and re.search(LONG[test], case.removesuffix("]")) is not None
